/** Types of the arguments that open the parts of the server, and of parts that tests replace. */
import { join } from 'node:path';
import type { Clock } from '../base/clock.ts';
import { packageRoot } from '../base/files/package-root.ts';
import type { LearningRedactor } from '../base/redaction/redact.ts';
import type { ServerSettings } from '../base/settings/settings.ts';
import type { Log } from '../base/telemetry/log.ts';
import type { ServerFileSettings } from '../contract/server-file.ts';
import type { Driver } from '../drivers/driver.ts';
import type { TransitionEnvironment } from '../store/transitions/transition-rules.ts';
import type { SweepServices } from '../sweeps/runner/services.ts';
import type { Sweep } from '../sweeps/runner/sweep.ts';

export const builtFiles = {
  console_dir: join(packageRoot, 'dist', 'console'),
  agent_bundle: join(packageRoot, 'dist', 'agent.mjs'),
};

/** Replaces parts in a test, for example to show that a scenario fails without a rule. */
export interface Composition {
  sweeps?(registry: Sweep[], services: SweepServices): Sweep[];
  drivers?(built: Map<string, Driver>, clock: Clock): Map<string, Driver>;
  environment?(built: TransitionEnvironment): TransitionEnvironment;
}

export interface Opening {
  settings: ServerSettings;
  log: Log;
  data_dir: string;
  version: string;
  /** Closes the opened parts in reverse order, at shutdown or when a later part fails to open. */
  parts: AsyncDisposableStack;
  composition: Composition;
  file: ServerFileSettings;
  redact: LearningRedactor;
  onError(message: string): (error: unknown) => void;
}
