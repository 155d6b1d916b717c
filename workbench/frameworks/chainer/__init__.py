"""Chainer and ChainerMN on a rank."""
