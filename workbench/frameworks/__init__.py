"""What each framework needs on a rank; a folder or a module for each."""
