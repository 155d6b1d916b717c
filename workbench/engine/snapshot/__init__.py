"""Snapshots of trainings: what is saved, where, and how a run resumes from one."""
