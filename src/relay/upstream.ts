/**
 * Connects the relay to the control plane. Sends batches by stream or by POST, and opens requests
 * for calls that the relay forwards.
 */
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import type { Clock } from '../base/clock.ts';
import { trustedCertificates } from '../base/network/trusted-certificates.ts';
import type { Log } from '../base/telemetry/log.ts';
import type { BatchBeat, HeartbeatResult } from '../contract/agent/agent.ts';
import { agentRoutes } from '../contract/routes/agent.ts';
import { type BatchStream, keepBatchStream } from './batch-stream.ts';
import { NotForwarded } from './batcher.ts';
import { readResults, refusalOf } from './replies.ts';

export interface UpstreamParts {
  clock: Clock;
  log: Log;
  server_urls: readonly [string, ...string[]];
  ca: string | null;
  /** Without a token, batches are sent by POST, each heartbeat with its own credential. */
  token: string | null;
  timeout_ms: number;
}

export interface Upstream {
  forward(beats: BatchBeat[]): Promise<HeartbeatResult[]>;
  /** Opens a request to the preferred URL, which changes when a batch could not be delivered. */
  open(method: string, path: string, headers: Record<string, string | string[]>): ReturnType<typeof httpRequest>;
  /** Opens the stream if there is a token. While it is open, batches use it. */
  keepStream(): void;
  isStreaming(): boolean;
  stop(): Promise<void>;
}

const keepAlive = { keepAlive: true, maxSockets: 256, maxFreeSockets: 32 };
const maxReplyBytes = 4 * 1024 * 1024;

async function readText(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response) {
    bytes += chunk.length;
    if (bytes > maxReplyBytes) throw new Error('the reply is too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parseReply(text: string): { results?: unknown } {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return {};
    throw error;
  }
}

export function openUpstream(parts: UpstreamParts): Upstream {
  const { clock, server_urls, token, timeout_ms } = parts;
  const agents = {
    'http:': new HttpAgent(keepAlive),
    'https:': new HttpsAgent({ ...keepAlive, ca: trustedCertificates(parts.ca) }),
  };
  let preferredIndex = 0;
  const url = () => server_urls[preferredIndex % server_urls.length] ?? server_urls[0];
  const preferNextUrl = () => {
    preferredIndex = (preferredIndex + 1) % server_urls.length;
  };

  const open: Upstream['open'] = (method, path, headers) => {
    const isSecure = url().startsWith('https:');
    const agent = agents[isSecure ? 'https:' : 'http:'];
    return (isSecure ? httpsRequest : httpRequest)(`${url()}${path}`, { method, headers, agent });
  };

  const post = (beats: BatchBeat[]) =>
    new Promise<HeartbeatResult[]>((resolve, reject) => {
      const body = Buffer.from(JSON.stringify({ beats }));
      const { method, path } = agentRoutes['agent-heartbeats'];
      const request = open(method, path, {
        'content-type': 'application/json',
        'content-length': String(body.length),
        ...(token !== null && { authorization: `Bearer ${token}` }),
      });
      const cancel = clock.after(timeout_ms, () => request.destroy(new Error('no answer in time')));
      request.on('close', cancel);
      request.on('error', reject);
      request.on('response', async (response) => {
        try {
          const reply = parseReply(await readText(response));
          const results = response.statusCode === 200 ? readResults(reply.results, beats.length) : null;
          if (results) resolve(results);
          else reject(refusalOf(reply));
        } catch (error) {
          reject(error);
        }
      });
      request.end(body);
    });

  /**
   * Each attempt to open the stream uses the next URL, regardless of the preferred URL for batches.
   */
  let streamAttempts = 0;
  const streamUrl = () => server_urls[streamAttempts++ % server_urls.length] ?? server_urls[0];
  let stream: BatchStream | undefined;

  return {
    open,
    keepStream() {
      if (token !== null) stream ??= keepBatchStream({ ...parts, token, url: streamUrl, timeout_ms });
    },
    isStreaming: () => stream?.isOpen() ?? false,
    async forward(beats) {
      try {
        return await (stream?.isOpen() ? stream.send(beats) : post(beats));
      } catch (error) {
        if (error instanceof NotForwarded && error.refusal) throw error;
        preferNextUrl();
        throw error instanceof NotForwarded
          ? error
          : new NotForwarded(error instanceof Error ? error.message : String(error));
      }
    },
    async stop() {
      await stream?.stop();
      for (const agent of Object.values(agents)) agent.destroy();
    },
  };
}
