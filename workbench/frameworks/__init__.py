"""What each framework needs on a rank; a folder for each."""
