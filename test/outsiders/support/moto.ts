/** Starts moto, an imitation of AWS. */
import { spawn } from 'node:child_process';
import type { Outsider } from '../../../scripts/setup/outsiders.mjs';
import { freePort } from '../../support/free-port.ts';
import { until } from '../../support/until.ts';

export interface Moto {
  endpoint: string;
  stop(): void;
}

export async function startMoto({ python, env }: Outsider): Promise<Moto> {
  const port = await freePort();
  const endpoint = `http://127.0.0.1:${port}`;
  const moto = spawn(python, ['-m', 'moto.server', '-H', '127.0.0.1', '-p', String(port)], {
    env: { ...process.env, ...env },
    stdio: 'ignore',
  });
  await until('moto to answer', () =>
    fetch(endpoint).then(
      () => true,
      () => undefined,
    ),
  );
  return { endpoint, stop: () => void moto.kill('SIGKILL') };
}
