import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';

test('the limit of open files is the hard limit, to which Node raises the soft limit at startup', () => {
  const module = new URL('host.ts', import.meta.url).href;
  const script = `console.log((await import('${module}')).openFilesLimit())`;
  const startWithLowLimit = 'ulimit -S -n 256 && ulimit -H -n 512 && exec "$0" --input-type=module --eval "$1"';
  const limit = execFileSync('sh', ['-c', startWithLowLimit, process.execPath, script], { encoding: 'utf8' });
  expect(Number(limit)).toBe(512);
});
