package credentialcheck

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/drover-io/drover/pkg/decide/credentialjob"
)

const defaultPort = "443"

type vsphere struct {
	client *http.Client
	fields map[string]string
}

// envelope is a SOAP message. Calls have Login or Logout, and answers have one of the others.
type envelope struct {
	XMLName xml.Name `xml:"http://schemas.xmlsoap.org/soap/envelope/ Envelope"`
	Body    struct {
		Login    *call     `xml:"urn:vim25 Login"`
		Logout   *call     `xml:"urn:vim25 Logout"`
		Response *struct{} `xml:"urn:vim25 LoginResponse"`
		Fault    *struct {
			Detail struct {
				Kind struct {
					Type string `xml:"http://www.w3.org/2001/XMLSchema-instance type,attr"`
				} `xml:",any"`
			} `xml:"detail"`
		} `xml:"http://schemas.xmlsoap.org/soap/envelope/ Fault"`
	} `xml:"http://schemas.xmlsoap.org/soap/envelope/ Body"`
}

// call is a call of the session manager, which always has the same name.
type call struct {
	This struct {
		Type string `xml:"type,attr"`
		Name string `xml:",chardata"`
	} `xml:"_this"`
	UserName string `xml:"userName,omitempty"`
	Password string `xml:"password,omitempty"`
}

func newCall() *call {
	c := &call{}
	c.This.Type, c.This.Name = "SessionManager", "SessionManager"
	return c
}

func (v *vsphere) check(ctx context.Context) (credentialjob.Result, error) {
	host := v.fields[credentialjob.FieldVCenter]
	if host == "" || strings.ContainsAny(host, "/@?# ") {
		return credentialjob.Result{}, errors.New("field vcenter: must be the host of vCenter")
	}
	port := v.fields[credentialjob.FieldVCenterPort]
	if port == "" {
		port = defaultPort
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil { // otherwise it could name another path
		return credentialjob.Result{}, errors.New("field vcenterPort: must be a port")
	}
	address := "https://" + net.JoinHostPort(strings.Trim(host, "[]"), port) + "/sdk"
	login := newCall()
	login.UserName, login.Password = v.fields[credentialjob.FieldUsername], v.fields[credentialjob.FieldPassword]
	question := &envelope{}
	question.Body.Login = login
	answer, cookies, err := v.call(ctx, address, question, nil)
	if err != nil {
		return credentialjob.Result{}, err
	}
	if answer.Body.Response != nil {
		end := &envelope{}
		end.Body.Logout = newCall()
		_, _, _ = v.call(ctx, address, end, cookies) // vSphere ends unused sessions, too
		return credentialjob.Result{Reason: credentialjob.ReasonAccepted, Message: "vSphere accepts the login"}, nil
	}
	fault := ""
	if answer.Body.Fault != nil {
		kind := answer.Body.Fault.Detail.Kind.Type
		fault = kind[strings.LastIndex(kind, ":")+1:]
	}
	switch fault {
	case "PasswordExpired":
		return credentialjob.Result{Reason: credentialjob.ReasonExpired, Message: "the credential has expired (" +
			"vSphere at " + host + " answers PasswordExpired); set a new one, and write it into the Secret"}, nil
	case "InvalidLogin", "NoPermission":
		return credentialjob.Result{Reason: credentialjob.ReasonRejected, Message: "vSphere does not accept the " +
			"credential (" + host + " answers " + fault + "); write that of a user who may log in into the Secret"}, nil
	}
	return credentialjob.Result{}, errNoAnswer{fmt.Errorf("%s answers neither with a session nor with a known fault",
		host)}
}

func (v *vsphere) call(ctx context.Context, address string, question *envelope,
	cookies []*http.Cookie) (*envelope, []*http.Cookie, error) {
	text, err := xml.Marshal(question)
	if err != nil {
		return nil, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(text))
	if err != nil {
		return nil, nil, errors.New("fields vcenter and vcenterPort: must be a host and a port")
	}
	request.Header.Set("Content-Type", `text/xml; charset="utf-8"`)
	request.Header.Set("SOAPAction", "urn:vim25/6.7")
	for _, cookie := range cookies {
		request.AddCookie(cookie)
	}
	got, err := send(v.client, request)
	if err != nil {
		return nil, nil, err
	}
	reply := &envelope{}
	if err := xml.Unmarshal(got.body, reply); err != nil {
		return nil, nil, errNoAnswer{fmt.Errorf("%s answers %s, and not as vSphere does", request.URL.Host,
			got.status)}
	}
	return reply, got.cookies, nil
}
