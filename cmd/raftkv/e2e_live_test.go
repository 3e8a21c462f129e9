package main_test

import (
	"testing"

	"github.com/coxswain/raft/internal/viewer/browsertest"
	"github.com/stretchr/testify/assert"
)

// card is an expression for the role that the page shows of a member.
func card(id string) string {
	return "document.querySelector('[data-member=" + id + "] .role')?.textContent"
}

func TestEndToEnd_ThePageGoesOnWhenTheMemberThatServesItDies(t *testing.T) {
	c, leader := startCluster(t)
	c.write()
	p := browsertest.Show(t, leader.URL()+"/", "light")
	p.Wait(card(leader.ID) + " === 'leader' && document.querySelectorAll('td.yes').length === 6")
	p.Wait("document.getElementById('pill').textContent === 'healthy'")
	c.Kill(leader.ID)
	next := c.leader(leader.ID)
	p.Wait(card(leader.ID) + " === 'does not answer' && " + card(next.ID) + " === 'leader'")
	p.Wait("document.getElementById('events').textContent.includes('" + next.ID + " took over ')")
	p.Wait("document.getElementById('findings').textContent.includes('docs/runbook.md#not-connected')")
	assert.NoError(t, c.Start(leader.ID))
	p.Wait("document.getElementById('events').textContent.includes('" + leader.ID + " answers again')")
	p.Wait("document.getElementById('pill').textContent === 'healthy'")
}
