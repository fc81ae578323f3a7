"""The screens of the browser; all but the first are imported when opened: that starts faster."""
