"""The run of utility-enhanced FedPower among parties: sums with one device's noise, nobody knowing whose."""
