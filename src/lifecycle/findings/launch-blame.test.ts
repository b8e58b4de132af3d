import { describe, expect, test } from 'vitest';
import { findCleanupBlame, findLaunchBlame, type LaunchStep } from './launch-blame.ts';

const step = (overrides: Partial<LaunchStep> = {}): LaunchStep => ({
  name: 'launch:pull_image',
  error: null,
  reported: null,
  is_queued: false,
  owner_layer: 'provider',
  ...overrides,
});
const error = { code: 'engine_away', owner_layer: 'operator', message: 'the engine is away' };

describe('a passed deadline is owned', () => {
  test('by the node, if no operation followed its boot or the operation waited for it to register', () => {
    const neverRegistered = {
      step: 'register',
      code: null,
      owner_layer: 'node',
      says: 'provisioning timed out: launched but never registered',
    };
    expect(findLaunchBlame(null, null)).toEqual({
      ...neverRegistered,
      says: 'provisioning timed out: the machine never registered',
    });
    expect(findLaunchBlame(step({ name: 'register' }), null)).toEqual(neverRegistered);
    expect(findLaunchBlame(step({ name: 'start:completed' }), null)).toEqual(neverRegistered);
  });

  test('by the owner of the last error during a launch, or else by the owner of the step', () => {
    expect(findLaunchBlame(step({ error }), null)).toEqual({
      step: 'pull_image',
      code: 'engine_away',
      owner_layer: 'operator',
      says: 'provisioning timed out at step pull_image (owner operator): the engine is away',
    });
    expect(findLaunchBlame(step({ reported: 'pulling' }), null).says).toBe(
      'provisioning timed out at step pull_image (owner provider): no error; last reported: pulling',
    );
    expect(findLaunchBlame(step({ owner_layer: null }), null)).toMatchObject({
      code: null,
      owner_layer: 'provider',
      says: 'provisioning timed out at step pull_image (owner provider): no error and no answer yet',
    });
  });

  test('by the control plane, before the launch or while the operation is queued', () => {
    expect(findLaunchBlame(step({ name: 'assign' }), null)).toMatchObject({
      step: 'assign',
      owner_layer: 'control_plane',
    });
    expect(findLaunchBlame(step({ name: 'register', is_queued: true }), null)).toMatchObject({
      owner_layer: 'control_plane',
      says: 'provisioning timed out at step register (owner control_plane): no replica has started the operation',
    });
  });

  test('by the owner of the error, if the register step failed', () => {
    expect(findLaunchBlame(step({ name: 'register', error }), null)).toMatchObject({ owner_layer: 'operator' });
  });

  test('by the provider, if it has no capacity', () => {
    const full = { code: 'no_capacity', owner_layer: 'provider' };
    expect(findLaunchBlame(step({ name: 'launch:request' }), 'capacity')).toMatchObject({ ...full, step: 'request' });
    expect(findLaunchBlame(null, 'capacity')).toMatchObject({ ...full, step: 'launch' });
  });

  test('with a text of bounded length', () => {
    const long = { ...error, message: 'x'.repeat(10_000) };
    expect(findLaunchBlame(step({ error: long }), null).says.length).toBeLessThan(600);
  });
});

describe('an overdue cleanup', () => {
  const stop = step({ name: 'stop' });
  const overran = 'its teardown did not end in time';

  test('names the step, its last error and the owner of the error', () => {
    expect(findCleanupBlame({ ...stop, error }, overran)).toEqual({
      step: 'stop',
      code: 'engine_away',
      owner_layer: 'operator',
      says: 'its teardown did not end in time at step stop (owner operator): the engine is away',
    });
  });

  test('names no owner without an error, except for an operation that no replica started', () => {
    expect(findCleanupBlame({ ...stop, reported: 'stopping' }, overran)).toEqual({
      step: 'stop',
      code: null,
      owner_layer: null,
      says: 'its teardown did not end in time at step stop: no error; last reported: stopping',
    });
    expect(findCleanupBlame({ ...stop, is_queued: true }, overran)).toMatchObject({ owner_layer: 'control_plane' });
  });

  test('names nothing if no step is open', () => {
    expect(findCleanupBlame(undefined, overran)).toBeNull();
  });
});
