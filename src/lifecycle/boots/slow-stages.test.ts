import { expect, test } from 'vitest';
import { findSlowStages, type TimedStage } from './slow-stages.ts';

const stage = (name: string, seconds: number, parent?: string): TimedStage => ({ name, seconds, parent });
const names = (stages: TimedStage[], usual: Record<string, number> = {}) =>
  findSlowStages(stages, new Map(Object.entries(usual))).map((slow) => slow.name);

test('names the stages above a quarter of a measured boot of 423 s, slowest first', () => {
  const boot = [
    stage('before the script', 42),
    stage('script', 381),
    stage('image-pull', 107, 'script'),
    stage('set-up', 270, 'script'),
  ];
  expect(findSlowStages(boot, new Map())).toEqual([
    { name: 'script', seconds: 381, usual_seconds: null, says: 'script took 381 s of 423 s' },
    { name: 'set-up', seconds: 270, usual_seconds: null, says: 'set-up took 270 s of 423 s' },
    { name: 'image-pull', seconds: 107, usual_seconds: null, says: 'image-pull took 107 s of 423 s' },
  ]);
});

test('counts sub-stages towards the whole boot if their parent is not reported, as in cloud-init', () => {
  const boot = [
    stage('scripts-user', 381, 'modules-final'),
    stage('growpart', 30.5, 'init-network'),
    stage('apt-configure', 11.5, 'modules-config'),
  ];
  expect(findSlowStages(boot, new Map()).map((slow) => slow.says)).toEqual(['scripts-user took 381 s of 423 s']);
});

test('names a stage that took more than twice its usual time', () => {
  const boot = [stage('image-pull', 20.26), stage('set-up', 1000)];
  expect(names(boot, { 'image-pull': 10.13, 'set-up': 900 })).toEqual([]);
  expect(findSlowStages(boot, new Map([['image-pull', 10.1]]))).toContainEqual({
    name: 'image-pull',
    seconds: 20.26,
    usual_seconds: 10.1,
    says: 'image-pull took 20.3 s, usually 10.1 s',
  });
});

test('names a stage without a usual time if it took more than a quarter of the boot', () => {
  expect(names([stage('a', 25), stage('b', 75)])).toEqual(['b']);
  expect(names([stage('a', 26), stage('b', 74)])).toEqual(['b', 'a']);
});

test('ignores stages below one second', () => {
  expect(names([stage('a', 0.99)], { a: 0.01 })).toEqual([]);
  expect(names([stage('a', 1)], { a: 0.01 })).toEqual(['a']);
  expect(names([])).toEqual([]);
});
