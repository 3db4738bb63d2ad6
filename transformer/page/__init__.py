"""The report of an evaluation as a page of HTML that needs nothing besides itself."""
