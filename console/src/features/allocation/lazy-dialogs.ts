/** Loads the dialogs for allocations when they are first opened. */
import { onDemand } from '../../ui/dialog/on-demand.tsx';

export const AllocateDialog = onDemand(
  ({ opened }) => opened,
  async () => (await import('./AllocateDialog.tsx')).AllocateDialog,
);

export const RecoverDialog = onDemand(
  ({ opened }) => opened,
  async () => (await import('./RecoverDialog.tsx')).RecoverDialog,
);
