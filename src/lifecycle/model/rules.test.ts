import { describe, expect, test } from 'vitest';
import {
  holdingRules,
  isNodeRule,
  isObserveOnly,
  type NodeRule,
  type NodeRuleName,
  nodeRules,
  pausingRules,
} from './rules.ts';
import { type NodeStatus, nodeStatuses, nodeStatusNames } from './states.ts';
import { type Cause, causes, nodeEdges } from './transitions.ts';

const rules = Object.entries(nodeRules) as [NodeRuleName, NodeRule][];
const edgesOf = (rule: Cause) => nodeEdges.filter((edge) => edge.by.includes(rule));

test('the table lists every rule that a deadline or silence triggers', () => {
  const byDeadline = nodeEdges
    .filter((edge) => edge.from !== 'new' && nodeStatuses[edge.from].class === 'moving')
    .flatMap((edge) => edge.by)
    .filter((by) => by.endsWith('-deadline') || by === 'rescue-over' || by === 'stuck-starting');
  for (const rule of [...byDeadline, 'liveness']) expect(isNodeRule(rule), rule).toBe(true);
  for (const name of ['claim-ready', 'queue-deadline', 'toString', '']) expect(isNodeRule(name), name).toBe(false);
});

test('a rule is negative if it leads to any status but ready', () => {
  for (const [name, rule] of rules) expect(rule.negative, name).toBe(edgesOf(name).some((edge) => edge.to !== 'ready'));
});

describe('in a mass failure, the brake', () => {
  test('holds offline verdicts and destruction', () => {
    expect(holdingRules).toEqual(['liveness', 'rescue-over', 'drift']);
  });

  test('lets deadline failures through, which can be undone, and pauses launches', () => {
    const intoFailed = rules.filter(([name]) => edgesOf(name).some((edge) => edge.to === 'failed'));
    expect(pausingRules).toEqual(intoFailed.map(([name]) => name));
    expect(intoFailed.length).toBe(3);
  });

  test('measures each rule against a population that contains its nodes', () => {
    for (const [name, rule] of rules)
      for (const { from } of edgesOf(name)) expect(rule.phase as readonly string[], name).toContain(from);
  });

  test('measures destruction against all live nodes', () => {
    const live = nodeStatusNames.filter((status) => nodeStatuses[status].class !== 'terminal');
    expect([...(nodeRules['rescue-over'].phase as readonly NodeStatus[])].sort()).toEqual(live.sort());
  });
});

describe('in an observe-only pool', () => {
  const unenforced = (mode: 'enforce' | 'observe' | undefined) =>
    (Object.keys(causes) as Cause[]).filter((cause) => isObserveOnly(cause, causes[cause].trigger, mode));

  test('rules change nothing, except at the end of a cleanup or drain', () => {
    for (const [name] of rules)
      expect(isObserveOnly(name, causes[name].trigger, 'observe'), name).toBe(
        !['clean-deadline', 'drain-deadline'].includes(name),
      );
  });

  test('changes by people, operations and machines apply', () => {
    expect(unenforced('observe').filter((cause) => causes[cause].trigger !== 'rule')).toEqual([]);
  });

  test('paired changes and the ends of requested cleanups and drains apply', () => {
    for (const cause of [
      'node-ready',
      'node-failed',
      'node-lost',
      'rescue',
      'clean-deadline',
      'drain-deadline',
    ] as const)
      expect(isObserveOnly(cause, causes[cause].trigger, 'observe'), cause).toBe(false);
  });

  test.for(['enforce', undefined] as const)('enforces all rules in mode %s', (mode) => {
    expect(unenforced(mode)).toEqual([]);
  });
});
