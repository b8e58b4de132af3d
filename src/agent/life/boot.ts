/** Prepares the machine before the registration: checks prerequisites and runs the set-up once. */
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../log.ts';
import { type CheckResults, checkPrerequisite, listRequiredAtLaunch } from '../prerequisites/prerequisites.ts';
import { runShell, type ShellParts } from '../process/shell.ts';
import type { AgentConfig } from '../state/config.ts';
import type { StateFile } from '../state/state-file.ts';
import type { Timing } from '../timing.ts';
import { type BootStages, simulateStages } from './boot-stages.ts';
import type { AgentEnd } from './exit.ts';

export interface BootParts {
  config: AgentConfig;
  clock: Clock;
  state: StateFile;
  stages: BootStages;
  checkResults: CheckResults;
  shell: ShellParts;
  log: Log;
  timing: Timing;
  signal: AbortSignal;
}

/** Returns null if the machine is ready to register, or if the agent was stopped meanwhile. */
export async function boot(parts: BootParts): Promise<AgentEnd | null> {
  const { config, state, stages } = parts;
  const check = () => checkPrerequisites(parts);
  // Every start checks the prerequisites. The check is a boot stage until the set-up is done.
  if (state.read().setup_done) return check();
  const failure = listRequiredAtLaunch(config, state).length > 0 ? await stages.run('prerequisites', check) : null;
  if (failure || parts.signal.aborted) return failure;
  await simulateStages(config.boot_stages, parts);
  const { setup } = config;
  const end = setup ? await stages.run('setup', () => setUp(parts, setup)) : null;
  // Without a set-up there is nothing worth a disk write here: the registration writes the state.
  if (!end && !parts.signal.aborted) (setup ? state.update : state.note)({ setup_done: true });
  return end;
}

async function checkPrerequisites(parts: BootParts): Promise<AgentEnd | null> {
  for (const prerequisite of listRequiredAtLaunch(parts.config, parts.state)) {
    const result = await checkPrerequisite(parts, prerequisite);
    if (!result) return null;
    const { name, check, ok, ending, last_lines } = result;
    parts.checkResults.record(result);
    if (ok) continue;
    parts.log.error('a prerequisite is missing', { prerequisite: name, check, how: ending });
    const reason = `prerequisite ${name} is missing: its check ${ending}`;
    return { code: 'prerequisite_missing', reason, last_output: last_lines };
  }
  return null;
}

async function setUp({ shell, log, signal }: BootParts, script: string): Promise<AgentEnd | null> {
  if (signal.aborted) return null;
  log.info('set-up started');
  const end = await runShell(shell, { script, stream: 'setup', signal });
  if (end.ok || signal.aborted) return null;
  log.error('set-up failed', { how: end.ending });
  return { code: 'setup_failed', reason: `setup ${end.ending}`, last_output: end.last_lines };
}
