"""PEM: private evaluation of functions that are sums over records; k-means, logistic regression, Apriori."""
