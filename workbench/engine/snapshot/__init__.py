"""Snapshots of Chainer's trainings: what is saved, where, and how a run resumes from one."""
