"""What the protocols announce: PD-NMF, PD-SVD, PD-PCA and the controls, on the ideal functionality."""
