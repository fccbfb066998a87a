package scope

import (
	"fmt"
)

// reachable refuses rules that can never decide anything: whoever wrote one
// believes something about the scope that isn't so.
func (r *reader) reachable(s *Scope, n *node) {
	if r.err != nil {
		return
	}
	for i := range s.allow {
		for j := range s.deny {
			if s.deny[j].covers(&s.allow[i]) {
				r.unreachable(n, &s.allow[i], &s.deny[j], "a deny rule always wins")
			}
		}
	}
	for _, list := range [][]rule{s.allow, s.deny} {
		for i := range list {
			for j := range i {
				if list[j].covers(&list[i]) {
					r.unreachable(n, &list[i], &list[j], "it has the same or a wider meaning")
				}
			}
		}
	}
}

func (r *reader) unreachable(n *node, late, early *rule, why string) {
	at := n.field(late.list).items[late.index]
	r.fail(at, fmt.Sprintf("%s[%d]", late.list, late.index), "unreachable: %s stands over it (%s); remove one of them", early, why)
}
