package ec2

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
)

// xmlSpace is the name space of answers, with the version of the API.
const xmlSpace = "http://ec2.amazonaws.com/doc/2016-11-15/"

// actions are the requests that a Cloud answers. Each function returns the body of the answer.
var actions = map[string]func(*Cloud, context.Context, url.Values) (any, error){
	"AuthorizeSecurityGroupEgress":  (*Cloud).authorizeEgress,
	"AuthorizeSecurityGroupIngress": (*Cloud).authorizeIngress,
	"CreateSecurityGroup":           (*Cloud).createSecurityGroup,
	"CreateTags":                    (*Cloud).createTags,
	"DeleteKeyPair":                 (*Cloud).deleteKeyPair,
	"DescribeAccountAttributes":     (*Cloud).describeAccountAttributes,
	"DescribeImages":                (*Cloud).describeImages,
	"DescribeInstances":             (*Cloud).describeInstances,
	"DescribeKeyPairs":              (*Cloud).describeKeyPairs,
	"DescribeRegions":               (*Cloud).describeRegions,
	"DescribeSecurityGroups":        (*Cloud).describeSecurityGroups,
	"DescribeSubnets":               (*Cloud).describeSubnets,
	"ImportKeyPair":                 (*Cloud).importKeyPair,
	"RunInstances":                  (*Cloud).runInstances,
	"TerminateInstances":            (*Cloud).terminateInstances,
}

// accessKeyOf finds the access key in the signature of a request. The signature itself is not verified.
var accessKeyOf = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=([^/]+)/\d{8}/[^/]+/ec2/aws4_request, `)

// Handler serves the Query API.
func (c *Cloud) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
		if err := r.ParseForm(); err != nil {
			answerError(w, refuse("MalformedQueryString", err.Error()))
			return
		}
		action := r.PostForm.Get("Action")
		body, err := c.call(r, action)
		c.note(Call{action, codeOf(err)})
		if err != nil {
			answerError(w, err)
			return
		}
		answer(w, http.StatusOK, body, action+"Response", xmlSpace)
	})
}

func (c *Cloud) note(call Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
}

func (c *Cloud) call(r *http.Request, action string) (any, error) {
	key := accessKeyOf.FindStringSubmatch(r.Header.Get("Authorization"))
	if key == nil || key[1] != c.accessKey {
		return nil, &failure{http.StatusUnauthorized, "AuthFailure",
			"AWS was not able to validate the provided access credentials"}
	}
	c.mu.Lock()
	err := c.refused(action)
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	do, ok := actions[action]
	if !ok {
		return nil, refuse("InvalidAction", fmt.Sprintf("The action %s is not valid for this web service.", action))
	}
	return do(c, r.Context(), r.PostForm)
}

func answer(w http.ResponseWriter, status int, body any, name, space string) {
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	w.Header().Set("X-Amzn-Requestid", newID("req"))
	w.WriteHeader(status)
	_ = xml.NewEncoder(w).EncodeElement(body, xml.StartElement{Name: xml.Name{Space: space, Local: name}})
}

// errorBody is the body of an answer with an error.
type errorBody struct {
	Code      string `xml:"Errors>Error>Code"`
	Message   string `xml:"Errors>Error>Message"`
	RequestID string `xml:"RequestID"`
}

func answerError(w http.ResponseWriter, err error) {
	status, message := http.StatusInternalServerError, err.Error()
	if f, ok := errors.AsType[*failure](err); ok {
		status, message = f.status, f.message
	}
	answer(w, status, errorBody{codeOf(err), message, newID("req")}, "Response", "")
}

// done is the body of an answer without content.
type done struct {
	Return bool `xml:"return"`
}

// listOf returns the values of a list: NAME.1, NAME.2 and so on.
func listOf(form url.Values, name string) []string {
	var values []string
	for i := 1; form.Has(name + "." + strconv.Itoa(i)); i++ {
		values = append(values, form.Get(name+"."+strconv.Itoa(i)))
	}
	return values
}

// selected reports whether an object with these attributes passes the filters of a request.
func selected(form url.Values, attributes map[string]string) (bool, error) {
	for i := 1; form.Has(fmt.Sprintf("Filter.%d.Name", i)); i++ {
		name := form.Get(fmt.Sprintf("Filter.%d.Name", i))
		value, ok := attributes[name]
		if !ok {
			return false, refuse("InvalidParameterValue", fmt.Sprintf("The filter '%s' is invalid", name))
		}
		if !slices.Contains(listOf(form, fmt.Sprintf("Filter.%d.Value", i)), value) {
			return false, nil
		}
	}
	return true, nil
}
