"""Faults that people who train models reported of other tools, each as a small input of ours.

A test carries the id of its case, `test_B01_...`; the files are named by kind: `ord` order and what
is latest, `nam` names and discovery, `pru` retention, `del` mechanics of deletion, `bst` meaning of
best, `par` partial taken for good, `res` resume state, `dat` position in the data, `log` history of
metrics, `mix` two runs in one folder. Where a case names another trainer's folder, the test builds
the native equivalent and holds besides that the foreign folder is told as ignored or unknown and
stays as it is.

These wait, each for a part that is not here yet:

| case | what it needs                                                                      |
|------|------------------------------------------------------------------------------------|
| B129 | a tracker that refuses steps below the last it saw; our own log: see B125 and B133 |

And of these a part waits, that of reading the other trainer's layout instead of ignoring it: B09,
B10, B14, B16, B26, B31, B32, B39, B40, B41, B42, B43, B71.
"""
