package corpus

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// dialer opens a connection to the proxy under test, as a program in the box
// could that speaks to 127.0.0.1:3128 without a browser.
type dialer func() (net.Conn, error)

// rawOnes are spoken to the proxy directly. Their control is a relay that
// forwards whatever it is asked to, so each has been seen to arrive.
var rawOnes = []Vector{
	{Name: "raw-connect", Group: "raw", Control: Open, Raw: tunnel("{{NAME}}.out.test:443", "{{NAME}}.out.test")},
	{Name: "raw-connect-address", Group: "raw", Control: Open, Raw: tunnel("{{ADDR}}:443", "")},
	{Name: "raw-connect-v6", Group: "raw", Control: Open, Raw: tunnel("[2600:9000::66]:443", "")},
	{Name: "raw-connect-mapped", Group: "raw", Control: Open, Raw: tunnel("[::ffff:{{ADDR}}]:443", "")},
	{Name: "raw-connect-dot", Group: "raw", Control: Open, Raw: tunnel("{{NAME}}.out.test.:443", "{{NAME}}.out.test")},
	{Name: "raw-connect-port", Group: "raw", Control: Open, Raw: tunnel("in.test:8443", "in.test")},
	{Name: "raw-connect-loopback", Group: "raw", Control: Open, Raw: plain("CONNECT 127.0.0.1:8080 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n", "GET {{HIT}} HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n")},
	{Name: "raw-sni-other", Group: "raw", Control: Open, Raw: tunnel("in.test:443", "{{NAME}}.out.test")},
	{Name: "raw-sni-none", Group: "raw", Control: Open, Raw: tunnelHost("in.test:443", "", "{{NAME}}.out.test")},
	{Name: "raw-absolute", Group: "raw", Control: Open, Raw: plain("", "GET http://{{NAME}}.out.test{{HIT}} HTTP/1.1\r\nHost: in.test\r\n\r\n")},
	{Name: "raw-userinfo", Group: "raw", Control: Open, Raw: plain("", "GET http://in.test@{{NAME}}.out.test{{HIT}} HTTP/1.1\r\nHost: in.test\r\n\r\n")},
	{Name: "raw-origin-form", Group: "raw", Control: Open, Raw: plain("", "GET {{HIT}} HTTP/1.1\r\nHost: {{NAME}}.out.test\r\n\r\n")},
	{Name: "raw-tunnel-plain-host", Group: "raw", Control: Open, Raw: plain("CONNECT in.test:80 HTTP/1.1\r\nHost: in.test:80\r\n\r\n", "GET {{HIT}} HTTP/1.1\r\nHost: {{NAME}}.out.test\r\n\r\n")},
	{Name: "raw-second-request", Group: "raw", Control: Open, Raw: plain("", "GET http://{{NAME}}.out.test/hit/{{NAME}} HTTP/1.1\r\nHost: {{NAME}}.out.test\r\nConnection: keep-alive\r\n\r\n")},
}

// tunnel asks for a CONNECT to authority, opens TLS in it with that server name
// ("" for none) and requests the vector's path.
func tunnel(authority, serverName string) func(dialer, Vector) error {
	return tunnelHost(authority, serverName, "")
}

// tunnelHost is tunnel with a Host header of its own.
func tunnelHost(authority, serverName, host string) func(dialer, Vector) error {
	return func(dial dialer, v Vector) error {
		authority, serverName, host := v.fill(authority), v.fill(serverName), v.fill(host)
		if host == "" {
			host = serverName
		}
		if host == "" {
			host, _, _ = net.SplitHostPort(authority)
		}
		return requestIn(dial, authority, serverName, "GET "+v.hit()+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
	}
}

// requestIn opens a tunnel, TLS in it, and sends one request.
func requestIn(dial dialer, authority, serverName, request string) error {
	c, err := dial()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(rawLimit)); err != nil {
		return err
	}
	if ok, err := ask(c, "CONNECT "+authority+" HTTP/1.1\r\nHost: "+authority+"\r\n\r\n"); !ok {
		return err
	}
	t := tls.Client(c, &tls.Config{ServerName: serverName, InsecureSkipVerify: true}) // a hostile client checks nothing
	_, err = ask(t, request)
	return err
}

// plain sends an optional CONNECT and then a request, without TLS.
func plain(connect, request string) func(dialer, Vector) error {
	return func(dial dialer, v Vector) error {
		c, err := dial()
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(rawLimit)); err != nil {
			return err
		}
		if connect != "" {
			if ok, err := ask(c, v.fill(connect)); !ok {
				return err
			}
		}
		_, err = ask(c, v.fill(request))
		return err
	}
}

// rawLimit bounds one raw conversation.
const rawLimit = 2 * time.Second

// ask writes a request and reads the answer's head. It tells whether that was a
// 200. A connection that the other side ends is an answer too: a refusal.
func ask(c net.Conn, request string) (bool, error) {
	if _, err := io.WriteString(c, request); err != nil {
		return false, nil
	}
	r := bufio.NewReader(io.LimitReader(c, 64<<10))
	status, err := r.ReadString('\n')
	if err != nil {
		return false, nil
	}
	for {
		line, err := r.ReadString('\n')
		if err != nil || strings.TrimSpace(line) == "" {
			break
		}
	}
	var version string
	var code int
	if _, err := fmt.Sscanf(status, "%s %d", &version, &code); err != nil {
		return false, fmt.Errorf("the proxy answered %q", strings.TrimSpace(status))
	}
	return code == 200, nil
}
