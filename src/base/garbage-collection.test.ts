/** Tests our flags, because V8 only warns about an unknown one, and a newer Node could drop one. */
import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';

const collector = new URL('./garbage-collection.ts', import.meta.url).href;

test('V8 accepts each garbage collection flag', () => {
  const program = `const { tuneGarbageCollection } = await import('${collector}'); tuneGarbageCollection(); console.log('set');`;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' });
  expect({ stdout, stderr }).toEqual({ stdout: 'set\n', stderr: '' });
});
