package admin

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
)

// fill gives every exported field a value, including those of elements.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Array:
		fill(v.Index(0))
	case reflect.Struct:
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			*at = time.Now().Add(-time.Minute)
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Interface:
		v.Set(reflect.ValueOf(errors.New("because")))
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	default:
		v.Set(reflect.ValueOf(1).Convert(v.Type()))
	}
}

// filled checks that every field has a value, and names the fields that have none.
func filled(t *testing.T, v reflect.Value, at string) {
	switch v.Kind() {
	case reflect.Pointer:
		filled(t, v.Elem(), at)
	case reflect.Slice:
		assert.NotZero(t, v.Len(), at)
		for i := range v.Len() {
			filled(t, v.Index(i), at)
		}
	case reflect.Struct:
		if when, is := v.Interface().(time.Time); is {
			assert.False(t, when.IsZero(), at)
			return
		}
		for i := range v.NumField() {
			filled(t, v.Field(i), at+"."+v.Type().Field(i).Name)
		}
	default:
		assert.True(t, v.IsValid() && !v.IsZero(), at)
	}
}

// The answers of the server contain all fields of the node's status. If the server forgot a field, the field would be empty.
func TestDescribe_LeavesNothingOut(t *testing.T) {
	var status node.Status
	fill(reflect.ValueOf(&status).Elem())
	status.Err, status.Role = raft.ErrClosed, raft.Leader
	status.Findings[0].Verdict = node.Verdicts()[0].Name
	self := status.Members[0].Peer()
	joint := raft.Configuration{Outgoing: []raft.Peer{self, {ID: "other"}}, Members: []raft.Member{{ID: "new", Incarnation: 7}}}
	described := describe(status, joint)
	filled(t, reflect.ValueOf(described), "Status")
}
