module chaperone/bench

go 1.26.0

require (
	chaperone v0.0.0
	github.com/gowebpki/jcs v1.0.2
)

replace chaperone => ../
