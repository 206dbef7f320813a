/** Files whose transfer a meter measures. */

import type { Meter } from '../contract/index.ts';
import type { DownloadItem, UploadedFile, UploadItem } from './api.ts';
import { downloadFile } from './download.ts';
import { StoreDestination } from './store-destination.ts';
import type { Transfer } from './transfer.ts';
import { uploadFile } from './upload.ts';

export function measuredUpload(item: UploadItem, transfer: Transfer, meter: Meter): Promise<UploadedFile> {
  return meter.measure('upload', { uri: transfer.store.uri, name: item.name }, async (span) => {
    const file = await uploadFile(item, new StoreDestination(item, transfer), transfer);
    const { key, sizeBytes, known } = file;
    span.set({ key, sizeBytes, referencedBytes: known ? sizeBytes : 0 });
    return file;
  });
}

export function measuredDownload(item: DownloadItem, transfer: Transfer, meter: Meter): Promise<void> {
  const { name, key, sizeBytes } = item.file;
  return meter.measure('download', { uri: transfer.store.uri, name, key, sizeBytes }, () =>
    downloadFile(item, transfer),
  );
}
