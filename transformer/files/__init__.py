"""Files that outlive the process that writes them."""
