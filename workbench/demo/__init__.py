"""The script that ``workbench demo`` runs on every rank."""
