"""`python -m ckptui`."""

from ckptui.cli import main

if __name__ == "__main__":
    main(prog_name="ckptui")
