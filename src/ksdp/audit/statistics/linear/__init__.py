"""The linear attack: releases are sums over the documents that are in, z = sum_i b_i a_i + noise, b_i 0 or 1."""
