package client

// Read is how an answer is judged.
var Read = read
