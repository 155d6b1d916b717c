"""What a rank prints and displays."""
