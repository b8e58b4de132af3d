import { describe, expect, test } from 'vitest';
import { blameFor, type LaunchStep } from './launch-blame.ts';

const step = (given: Partial<LaunchStep> = {}): LaunchStep => ({
  name: 'launch:pull_image',
  error: null,
  reported: null,
  is_queued: false,
  owner_layer: 'provider',
  ...given,
});
const error = { code: 'engine_away', owner_layer: 'operator', message: 'the engine is away' };

describe('a passed deadline is owned', () => {
  test('by the node, without an operation or while it waited to register', () => {
    const launched = {
      step: 'register',
      code: null,
      owner_layer: 'node',
      says: 'provisioning timed out: launched but never registered',
    };
    expect(blameFor(null, null)).toEqual({ ...launched, says: 'provisioning timed out: the machine never registered' });
    expect(blameFor(step({ name: 'register' }), null)).toEqual(launched);
    expect(blameFor(step({ name: 'start:completed' }), null)).toEqual(launched);
  });

  test('in a launch, by the owner of its last error or of the step', () => {
    expect(blameFor(step({ error }), null)).toEqual({
      step: 'pull_image',
      code: 'engine_away',
      owner_layer: 'operator',
      says: 'provisioning timed out at step pull_image (owner operator): the engine is away',
    });
    expect(blameFor(step({ reported: 'pulling' }), null).says).toBe(
      'provisioning timed out at step pull_image (owner provider): no error; last reported: pulling',
    );
    expect(blameFor(step({ owner_layer: null }), null)).toMatchObject({
      code: null,
      owner_layer: 'provider',
      says: 'provisioning timed out at step pull_image (owner provider): no error and no answer yet',
    });
  });

  test('by the control plane, before the launch or while the operation is queued', () => {
    expect(blameFor(step({ name: 'assign' }), null)).toMatchObject({ step: 'assign', owner_layer: 'control_plane' });
    expect(blameFor(step({ name: 'register', is_queued: true }), null)).toMatchObject({
      owner_layer: 'control_plane',
      says: 'provisioning timed out at step register (owner control_plane): no replica has started the operation',
    });
  });

  test('by the owner of the failure, in a failed step of the machine', () => {
    expect(blameFor(step({ name: 'register', error }), null)).toMatchObject({ owner_layer: 'operator' });
  });

  test('by the provider, without capacity', () => {
    const full = { code: 'no_capacity', owner_layer: 'provider' };
    expect(blameFor(step({ name: 'launch:request' }), 'capacity')).toMatchObject({ ...full, step: 'request' });
    expect(blameFor(null, 'capacity')).toMatchObject({ ...full, step: 'launch' });
  });

  test('with a bounded text', () => {
    const long = { ...error, message: 'x'.repeat(10_000) };
    expect(blameFor(step({ error: long }), null).says.length).toBeLessThan(600);
  });
});
