package ledger

// Faults that the build tag mutant can put in, by their numbers in
// docs/model/README.md: the ledger's own tests must find each. Without the tag
// mutant is the constant 0, and the compiler leaves nothing of them.
const (
	claimTwice      = 2
	lossWithout     = 4 // an effect
	anyDigest       = 5
	judgeOnce       = 6
	leaveWaiting    = 7
	secondSends     = 8
	anyReference    = 9
	anyTime         = 10
	orphansWithout  = 13 // an effect
	stopCommits     = 14
	leaseSurvives   = 21
	pointerAlone    = 22
	openTwice       = 23
	publishBlindly  = 24
	leasePending    = 25
	olderTabStays   = 26
	armAlone        = 27
	grantKilled     = 28
	armWithoutEnd   = 29
	orphanedChannel = 30
)
