/** Loads the dialogs for allocations when they are first opened. */
import { loadOnDemand } from '../../ui/dialog/on-demand.tsx';

export const AllocateDialog = loadOnDemand(
  ({ opened }) => opened,
  async () => (await import('./AllocateDialog.tsx')).AllocateDialog,
);

export const RecoverDialog = loadOnDemand(
  ({ opened }) => opened,
  async () => (await import('./RecoverDialog.tsx')).RecoverDialog,
);
