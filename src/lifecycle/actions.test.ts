import { describe, expect, test } from 'vitest';
import { type ActionSubject, nodeActionNames, nodeActions, offeredActions } from './actions.ts';
import { nodeStatuses, nodeStatusNames } from './states.ts';

const subject = (over: Partial<ActionSubject> = {}): ActionSubject => ({
  status: 'starting',
  deadline_at: new Date(0),
  held: { rule: 'start-deadline' },
  ...over,
});
const offer = (action: string, over: Partial<ActionSubject> = {}) =>
  offeredActions(subject(over)).find((each) => each.action === action);

test('every action is offered, with what it does and whether it is open', () => {
  expect(offeredActions(subject())).toEqual(
    nodeActionNames.map((action) => ({ action, does: nodeActions[action].does, open: true, why_not: null })),
  );
});

describe('more time', () => {
  test('can be given wherever a deadline runs, and nowhere else', () => {
    for (const status of nodeStatusNames)
      expect(offer('extend-deadline', { status })?.open, status).toBe(nodeStatuses[status].deadline !== null);
  });

  test('is refused with the reason', () => {
    expect(offer('extend-deadline', { deadline_at: null })).toMatchObject({
      open: false,
      why_not: 'It has no deadline.',
    });
    expect(offer('extend-deadline', { status: 'ready' })).toMatchObject({
      open: false,
      why_not: 'It is ready; this needs provisioning, starting, offline, failed, draining, cleaning.',
    });
  });
});

describe('a verdict that is held back', () => {
  test('can be applied wherever a rule may decide, and nowhere else', () => {
    for (const status of nodeStatusNames) {
      const kind = nodeStatuses[status].class;
      expect(offer('apply-held-verdict', { status })?.open, status).toBe(kind === 'moving' || kind === 'serving');
    }
  });

  test('must be there', () => {
    expect(offer('apply-held-verdict', { held: null })).toMatchObject({
      open: false,
      why_not: 'No verdict is held back.',
    });
  });
});
