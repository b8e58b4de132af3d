/**
 * Loads Azure's SDKs at first use, once, and strictly one after the other. Some are imported and
 * some required, and they share modules: Node refuses to require a module whose import is pending,
 * and caches that error for the life of the process.
 */
async function load() {
  const identity = await import('@azure/identity');
  const aks = await import('@azure/arm-containerservice');
  const { createContainerService } = await import('@azure/arm-containerservice/api');
  const { ResourceManagementClient } = await import('@azure/arm-resources');
  const { AuthorizationManagementClient } = await import('@azure/arm-authorization');
  return { ...identity, ...aks, createContainerService, ResourceManagementClient, AuthorizationManagementClient };
}

let loaded: ReturnType<typeof load> | undefined;

export function azureSdks(): ReturnType<typeof load> {
  loaded ??= load();
  return loaded;
}
