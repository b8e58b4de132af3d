/**
 * Implements `slipway agent doctor`, which examines the path from this machine to the server with
 * the agent's credential. It sends no heartbeat and takes no lock, so it does not disturb a running
 * agent and does not make a dead agent look alive.
 */
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import type { Clock } from '../base/clock.ts';
import { newCorrelationId } from '../base/ids.ts';
import type { LayerReport } from '../doctor/examination.ts';
import { examine } from '../doctor/examine.ts';
import { closingLines, examinationJson, exitOf, layerLine } from '../doctor/render.ts';
import { usageExitCode } from './life/exit.ts';
import { agentFlags, readCertificateFile, usage } from './options.ts';
import { type AgentConfig, configFrom, readConfigFile, UsageError } from './state/config.ts';
import { errorText } from './state/shape.ts';
import { readStoredState } from './state/state-file.ts';

export const doctorFlags = {
  config: { type: 'string' },
  server: { type: 'string' },
  ca: { type: 'string' },
  'allow-insecure-http': { type: 'boolean' },
  dir: { type: 'string' },
  patience: { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean' },
} as const;

/** The same exit statuses as `slipway doctor` has. */
const exitCodes = { ok: 0, failed: 1, unreachable: 3, refused: 4 };
const defaultTimeoutSeconds = 10;
const maxTimeoutSeconds = 60;

export interface DoctorEnvironment {
  clock: Clock;
  out(line: string): void;
  err(line: string): void;
}

interface DoctorOptions {
  config: AgentConfig;
  timeout_seconds: number;
  json: boolean;
}

/** Returns null for --help. */
function optionsFrom(args: string[], env: NodeJS.ProcessEnv): DoctorOptions | null {
  const { values: typedFlags } = parseFlags(args);
  if (typedFlags.help) return null;
  const values = agentFlags(typedFlags, doctorFlags, env);
  const timeout_seconds = Number(values.patience ?? defaultTimeoutSeconds);
  if (!(timeout_seconds > 0 && timeout_seconds <= maxTimeoutSeconds))
    throw new UsageError(`--patience must be more than 0 and at most ${maxTimeoutSeconds} seconds`);
  const ca = readCertificateFile(values.ca);
  const dir = resolve(values.dir ?? '.slipway-agent');
  const config = values.config
    ? readConfigFile(values.config)
    : configFrom({ server_url: values.server, dir, ca, allow_insecure_http: values['allow-insecure-http'] });
  return { config: { ...config, ca: ca ?? config.ca }, timeout_seconds, json: values.json === true };
}

function parseFlags(args: string[]) {
  try {
    return parseArgs({ args, options: doctorFlags });
  } catch (error) {
    throw new UsageError(errorText(error));
  }
}

const withoutColor = (_tone: string, text: string) => text;

/** Returns the exit status. */
export async function agentDoctor(
  args: string[],
  env: NodeJS.ProcessEnv,
  { clock, out, err }: DoctorEnvironment,
): Promise<number> {
  let options: DoctorOptions | null;
  try {
    options = optionsFrom(args, env);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    err(`slipway agent doctor: ${error.message}\n\n${usage}`);
    return usageExitCode;
  }
  if (!options) {
    out(usage);
    return 0;
  }
  const { config, timeout_seconds, json } = options;
  const state = readStoredState(config.dir);
  const correlation_id = newCorrelationId();
  const reports: LayerReport[] = [];
  const examination = examine({
    url: new URL(config.server_url),
    ca: config.ca,
    known_keys: state?.identity ? state.task_keys.map(({ public_key }) => public_key) : null,
    caller: { kind: 'agent', credential: state?.identity?.credential ?? null },
    correlation_id,
    clock,
    signal: new AbortController().signal,
    timeout_seconds,
  });
  for await (const report of examination) {
    reports.push(report);
    if (!json) out(layerLine(report, withoutColor));
  }
  if (json) out(JSON.stringify(examinationJson(config.server_url, reports, correlation_id), null, 2));
  else out(['', ...closingLines(reports, withoutColor)].join('\n'));
  return exitCodes[exitOf(reports)];
}
