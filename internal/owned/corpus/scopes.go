package corpus

// hostScope is the scope under test for the corpus of hosts. It names hosts that
// resolve to special addresses without allowing those, and a port on which the
// node itself listens.
const hostScope = `
engagement: corpus
allow:
  - host: in.test
    ports: [80, 443, 7080]
  - host: special.in.test
  - host: meta.in.test
  - host: mixed.in.test
  - host: rebind.in.test
`

// pathScope is the scope under test for the corpus of paths.
const pathScope = `
engagement: corpus
allow:
  - host: in.test
    paths: ["/open/**", "/v/**", "/echo", "/redir", "/favicon.ico"]
    methods: [GET, HEAD, POST]
`

// wideScope is the control's: everything that a vector aims at is allowed.
const wideScope = `
engagement: corpus
allow_metadata: true
allow:
  - host: in.test
    ports: "*"
  - host: "*.in.test"
    ports: "*"
    resolves_to: [10.0.0.0/8, 169.254.0.0/16]
  - host: "*.out.test"
    ports: "*"
  - host: localhost
    ports: "*"
  - host: 127.0.0.1
    ports: "*"
  - host: "::1"
    ports: "*"
  - host: 169.254.169.254
    ports: "*"
  - cidr: 0.0.0.0/0
    ports: "*"
  - cidr: "::/0"
    ports: "*"
`
