"""Mechanisms, on the ideal functionality: PD-NMF, PD-SVD, PD-PCA, their peers and the controls."""
