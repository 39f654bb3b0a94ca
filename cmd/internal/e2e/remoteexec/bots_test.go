package remoteexec_test

import (
	"context"
	"fmt"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// workers use the Remote workers API, google.devtools.remoteworkers.v1test2. A bot opens a session
// and sends it repeatedly. The server answers as soon as it has a lease for the bot, which is a
// command to run. The bot returns the lease in its session when the command has ended. No Go module
// still has the messages of that API, and only a few of their fields are needed, so they are
// encoded here.

// session is a BotSession message.
type session struct {
	instance, name, bot, version string
	leases                       []lease
}

// lease is a Lease message.
type lease struct {
	id     string
	state  uint64
	status *spb.Status
	action []byte // the payload, a packed Action
	result proto.Message
}

// States of leases, and the one status of a bot.
const (
	active    = 2
	completed = 4
	ok        = 1
)

func field(b []byte, n protowire.Number, text []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), text)
}

func number(b []byte, n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
}

func (s *session) encode() (b []byte, err error) {
	b = field(b, 1, []byte(s.name))
	b = field(b, 2, []byte(s.bot))
	b = number(b, 3, ok)
	for _, l := range s.leases {
		m := number(nil, 2, l.state)
		m = field(m, 7, []byte(l.id))
		if l.status != nil {
			text, err := proto.Marshal(l.status)
			if err != nil {
				return nil, err
			}
			m = field(m, 3, text)
		}
		if l.result != nil {
			packed, err := anypb.New(l.result)
			if err != nil {
				return nil, err
			}
			text, err := proto.Marshal(packed)
			if err != nil {
				return nil, err
			}
			m = field(m, 9, text)
		}
		b = field(b, 5, m)
	}
	return field(b, 7, []byte(s.version)), nil
}

// fields calls f for each field of a message. text is nil for a number.
func fields(b []byte, f func(n protowire.Number, text []byte, value uint64) error) error {
	for len(b) > 0 {
		n, kind, used := protowire.ConsumeTag(b)
		if used < 0 {
			return protowire.ParseError(used)
		}
		b = b[used:]
		var text []byte
		var value uint64
		switch kind {
		case protowire.BytesType:
			text, used = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			value, used = protowire.ConsumeVarint(b)
		default:
			used = protowire.ConsumeFieldValue(n, kind, b)
		}
		if used < 0 {
			return protowire.ParseError(used)
		}
		b = b[used:]
		if err := f(n, text, value); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) decode(b []byte) error {
	*s = session{instance: s.instance, bot: s.bot}
	return fields(b, func(n protowire.Number, text []byte, _ uint64) error {
		switch n {
		case 1:
			s.name = string(text)
		case 5:
			l, err := decodeLease(text)
			s.leases = append(s.leases, l)
			return err
		case 7:
			s.version = string(text)
		}
		return nil
	})
}

func decodeLease(b []byte) (l lease, err error) {
	err = fields(b, func(n protowire.Number, text []byte, value uint64) error {
		switch n {
		case 2:
			l.state = value
		case 7:
			l.id = string(text)
		case 8:
			l.action = text
		}
		return nil
	})
	return l, err
}

// verbatim is a codec for messages that are already bytes.
type verbatim struct{}

func (verbatim) Marshal(m any) ([]byte, error) { return *m.(*[]byte), nil }

func (verbatim) Unmarshal(b []byte, m any) error {
	*m.(*[]byte) = append([]byte(nil), b...)
	return nil
}

func (verbatim) Name() string { return "proto" }

// exchange sends the session and replaces it by the server's answer. It creates a session that has
// no name yet.
func (s *session) exchange(ctx context.Context, conn *grpc.ClientConn) error {
	text, err := s.encode()
	if err != nil {
		return err
	}
	method, request := "CreateBotSession", field(field(nil, 1, []byte(s.instance)), 2, text)
	if s.name != "" {
		method, request = "UpdateBotSession", field(field(nil, 1, []byte(s.name)), 2, text)
	}
	var answer []byte
	if err := conn.Invoke(ctx, "/google.devtools.remoteworkers.v1test2.Bots/"+method, &request, &answer, grpc.ForceCodec(verbatim{})); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return s.decode(answer)
}
