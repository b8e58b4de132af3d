/** A node that runs the unmodified AgentField SDK in its own process. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { sdkPython } from '../../../scripts/setup/agentfield-sdk.mjs';
import { freePort } from '../../support/free-port.ts';

const program = fileURLToPath(new URL('agentfield-node.py', import.meta.url));

export interface SdkNode {
  /** Everything the node printed, for the messages of failing tests. */
  output(): string;
  /** Resolves when the process is gone. */
  end(signal: NodeJS.Signals): Promise<void>;
}

/** How to start a program with a version of the SDK. */
export type Sdk = ReturnType<typeof sdkPython>;

/**
 * `port` is the port of the node, a free one by default. The node registers `callback_url` as its
 * address, if given.
 */
export async function startSdkNode(
  version: string | Sdk,
  node_id: string,
  base_url: string,
  port?: number,
  callback_url?: string,
): Promise<SdkNode> {
  const sdk = typeof version === 'string' ? sdkPython(version) : version;
  const child = spawn(sdk.program, [program], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      ...sdk.env,
      NODE_ID: node_id,
      AGENTFIELD_SERVER: base_url,
      ...(callback_url && { CALLBACK_URL: callback_url }),
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
