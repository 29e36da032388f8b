"""NMF, SVD and PCA among parties that share nothing but sums."""
