/**
 * Every route by its operation id (`noun-verb`), which also names it in OpenAPI, the CLI, metrics
 * and logs.
 */
import { agentRoutes } from './routes/agent.ts';
import { allocationRoutes } from './routes/allocations.ts';
import { checkupRoutes } from './routes/checkup.ts';
import { driftRoutes } from './routes/drift.ts';
import { evidenceRoutes } from './routes/evidence.ts';
import { nodeRoutes } from './routes/nodes.ts';
import { operationRoutes } from './routes/operations.ts';
import { poolRoutes } from './routes/pools.ts';
import { replayRoutes } from './routes/replay.ts';
import { residueRoutes } from './routes/residue.ts';
import { restorationRoutes } from './routes/restoration.ts';
import { secretRoutes } from './routes/secrets.ts';
import { serverRoutes } from './routes/server.ts';
import { supervisionRoutes } from './routes/supervision.ts';
import { tokenRoutes } from './routes/tokens.ts';

export const routes = {
  ...serverRoutes,
  ...tokenRoutes,
  ...poolRoutes,
  ...secretRoutes,
  ...allocationRoutes,
  ...nodeRoutes,
  ...checkupRoutes,
  ...operationRoutes,
  ...evidenceRoutes,
  ...supervisionRoutes,
  ...driftRoutes,
  ...replayRoutes,
  ...residueRoutes,
  ...restorationRoutes,
  ...agentRoutes,
} as const;

export type Routes = typeof routes;
export type OperationName = keyof Routes;
