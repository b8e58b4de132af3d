/** The engine answers a setting that it does not know with a line on its error output and goes on: a newer Node would lose ours unseen. */
import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';

const collector = new URL('./collector.ts', import.meta.url).href;

test('the engine knows each setting by which memory is collected', () => {
  const program = `const { collectOnlyForRoom } = await import('${collector}'); collectOnlyForRoom(); console.log('set');`;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' });
  expect({ stdout, stderr }).toEqual({ stdout: 'set\n', stderr: '' });
});
