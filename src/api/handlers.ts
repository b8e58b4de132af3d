/**
 * The handler of every route. A route without one, or a handler without a route, does not compile.
 */

import { agentStream } from './agent-stream/open-stream.ts';
import { agentHandlers } from './routes/agent.ts';
import { agentTaskHandlers } from './routes/agent-tasks.ts';
import { allocationHandlers } from './routes/allocations.ts';
import { bootHandlers } from './routes/boots.ts';
import { certificateHandlers } from './routes/certificates.ts';
import { checkupHandlers } from './routes/checkup.ts';
import { driftHandlers } from './routes/drift.ts';
import { evidenceHandlers } from './routes/evidence.ts';
import { evidenceExportHandlers } from './routes/evidence-export.ts';
import { evidenceSealHandlers } from './routes/evidence-seals.ts';
import { explanationHandlers } from './routes/explanations.ts';
import { findHandlers } from './routes/find.ts';
import { fleetHandlers } from './routes/fleet.ts';
import { nodeHandlers } from './routes/nodes.ts';
import { poolHandlers } from './routes/pools.ts';
import { recoveryHandlers } from './routes/recovery.ts';
import { replayHandlers } from './routes/replay.ts';
import { residueHandlers } from './routes/residue.ts';
import { secretHandlers } from './routes/secrets.ts';
import { serverHandlers } from './routes/server.ts';
import { sessionHandlers } from './routes/sessions.ts';
import { supervisionHandlers } from './routes/supervision.ts';
import { tokenHandlers } from './routes/tokens.ts';
import type { Handlers } from './services.ts';
import { statusHandlers } from './status/handlers.ts';
import { restorationHandlers } from './status/restoration.ts';
import { streamOpen } from './stream/stream.ts';

export const handlers: Handlers = {
  ...serverHandlers,
  ...statusHandlers,
  ...sessionHandlers,
  ...tokenHandlers,
  ...poolHandlers,
  ...secretHandlers,
  ...bootHandlers,
  ...allocationHandlers,
  ...nodeHandlers,
  ...fleetHandlers,
  ...checkupHandlers,
  ...evidenceHandlers,
  ...evidenceExportHandlers,
  ...evidenceSealHandlers,
  ...certificateHandlers,
  ...explanationHandlers,
  ...findHandlers,
  ...recoveryHandlers,
  ...supervisionHandlers,
  ...driftHandlers,
  ...replayHandlers,
  ...residueHandlers,
  ...restorationHandlers,
  ...agentHandlers,
  ...agentTaskHandlers,
  'stream-open': streamOpen,
  'agent-stream': agentStream,
};
