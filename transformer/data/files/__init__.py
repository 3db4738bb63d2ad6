"""Files and data sets as text: lines, splits, labels; no tokens."""
