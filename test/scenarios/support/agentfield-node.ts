/** A node that runs the AgentField SDK, unmodified, in a process of its own. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { sdkPython } from '../../../scripts/setup/agentfield-sdk.mjs';
import { freePort } from '../../support/free-port.ts';

const program = fileURLToPath(new URL('agentfield-node.py', import.meta.url));

export interface SdkNode {
  /** What it printed; for a test that fails. */
  output(): string;
  /** Resolves when the process is gone. */
  end(signal: NodeJS.Signals): Promise<void>;
}

/** `port`: where it serves, and so its address; another one at each start unless one is given. */
export async function startSdkNode(
  version: string,
  node_id: string,
  base_url: string,
  port?: number,
): Promise<SdkNode> {
  const sdk = sdkPython(version);
  const child = spawn(sdk.program, [program], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      ...sdk.env,
      NODE_ID: node_id,
      AGENTFIELD_SERVER: base_url,
      PORT: String(port ?? (await freePort())),
    },
  });
  let text = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      text += chunk;
    });
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);
  return {
    output: () => text,
    async end(signal) {
      child.kill(signal);
      await gone;
      process.off('exit', kill);
    },
  };
}
