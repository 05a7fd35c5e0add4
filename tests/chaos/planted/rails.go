package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"payonce/activities"
	"payonce/tests/chaos/storm"
)

// rail is a payment rail with a fault on our side of it.
type rail struct {
	activities.Rail // the real one

	plant railPlant
}

// railPlant is a fault: what is done in place of submitting or asking; nil is what the real rail does.
type railPlant struct {
	submit func(ctx context.Context, r activities.Rail, payment activities.RailPayment) (activities.RailAnswer, error)
	lookup func(ctx context.Context, r activities.Rail, reference string) (activities.RailAnswer, error)
}

var railPlants = map[string]railPlant{
	storm.PlantSubmitNoKey:    {submit: submitNoKey},
	storm.PlantLostIsRejected: {submit: lostIsRejected},
	storm.PlantUnknownIsNever: {lookup: unknownIsNever},
	storm.PlantTakenIsSettled: {submit: takenIsSettled},
}

// Submit asks for a payout, with the fault.
func (r *rail) Submit(ctx context.Context, payment activities.RailPayment) (activities.RailAnswer, error) {
	if r.plant.submit == nil {
		return r.Rail.Submit(ctx, payment)
	}
	return r.plant.submit(ctx, r.Rail, payment)
}

// Lookup asks what has become of a payout, with the fault.
func (r *rail) Lookup(ctx context.Context, reference string) (activities.RailAnswer, error) {
	if r.plant.lookup == nil {
		return r.Rail.Lookup(ctx, reference)
	}
	return r.plant.lookup(ctx, r.Rail, reference)
}

// Cancel asks for a payout to be stopped, as the real rail does.
func (r *rail) Cancel(ctx context.Context, reference string) (activities.RailAnswer, error) {
	canceller, ok := r.Rail.(activities.RailCanceller)
	if !ok {
		return activities.RailAnswer{}, errors.ErrUnsupported
	}
	return canceller.Cancel(ctx, reference)
}

// submitNoKey makes up a fresh key for each attempt.
func submitNoKey(ctx context.Context, r activities.Rail, payment activities.RailPayment) (activities.RailAnswer, error) {
	payment.Key = fmt.Sprintf("%s/%d", payment.Key, rand.Uint64())
	return r.Submit(ctx, payment)
}

// lostIsRejected takes an error for a word against the payout.
func lostIsRejected(ctx context.Context, r activities.Rail, payment activities.RailPayment) (activities.RailAnswer, error) {
	answer, err := r.Submit(ctx, payment)
	if err != nil {
		return activities.RailAnswer{State: activities.RailRejected, Code: "error", Detail: err.Error()}, nil //nolint:nilerr // that is the fault
	}
	return answer, nil
}

// unknownIsNever takes it that what the rail does not know now never arrives.
func unknownIsNever(ctx context.Context, r activities.Rail, reference string) (activities.RailAnswer, error) {
	answer, err := r.Lookup(ctx, reference)
	if err == nil && answer.State == activities.RailUnknown {
		answer.State, answer.Code = activities.RailRejected, "unknown"
	}
	return answer, err
}

// takenIsSettled takes it that what the rail has taken is paid.
func takenIsSettled(ctx context.Context, r activities.Rail, payment activities.RailPayment) (activities.RailAnswer, error) {
	answer, err := r.Submit(ctx, payment)
	if err == nil && answer.State == activities.RailPending {
		answer.State = activities.RailSettled
	}
	return answer, err
}
