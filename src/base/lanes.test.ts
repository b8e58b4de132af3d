import { expect, test } from 'vitest';
import { createLanes } from './lanes.ts';

/** Work that notes when it begins and ends, and is let go by hand. */
function noting() {
  const notes: string[] = [];
  const gates = new Map<string, () => void>();
  const work = (name: string) => async () => {
    notes.push(`${name} begins`);
    await new Promise<void>((resolve) => gates.set(name, resolve));
    notes.push(`${name} ends`);
    return name;
  };
  const letGo = async (name: string) => {
    gates.get(name)?.();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { notes, work, letGo };
}

test('whoever comes to a lane waits for those before, and for nobody else', async () => {
  const { notes, work, letGo } = noting();
  const lanes = createLanes();
  const done = [lanes.run('a', work('first')), lanes.run('a', work('second')), lanes.run('b', work('other'))];
  await letGo('nobody');
  expect(notes).toEqual(['first begins', 'other begins']);
  await letGo('first');
  expect(notes).toEqual(['first begins', 'other begins', 'first ends', 'second begins']);
  await letGo('second');
  await letGo('other');
  expect(await Promise.all(done)).toEqual(['first', 'second', 'other']);
});

test('one that fails keeps nobody', async () => {
  const lanes = createLanes();
  const failing = lanes.run('a', () => Promise.reject(new Error('no')));
  const next = lanes.run('a', async () => 'yes');
  await expect(failing).rejects.toThrow('no');
  expect(await next).toBe('yes');
});
