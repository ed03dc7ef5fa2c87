package parsieve;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkException;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.util.SerializableConfiguration;

// Spark's own reader of Parquet files, but it fails if a file is no longer the one that the driver listed.
// Spark splits a file into parts by its listed size, so it would miss rows of a longer file that replaced it.
public class WatchedParquet extends ParquetFileFormat {
    public scala.Function1 buildReaderWithPartitionValues(
            org.apache.spark.sql.SparkSession session,
            org.apache.spark.sql.types.StructType data,
            org.apache.spark.sql.types.StructType partition,
            org.apache.spark.sql.types.StructType required,
            SEQ filters,
            scala.collection.immutable.Map options,
            Configuration conf) {
        scala.Function1 inner =
            super.buildReaderWithPartitionValues(session, data, partition, required, filters, options, conf);
        return new Reader(inner, new SerializableConfiguration(conf));
    }

    public static class Reader extends scala.runtime.AbstractFunction1 implements java.io.Serializable {
        private final scala.Function1 inner;
        private final SerializableConfiguration conf;

        public Reader(scala.Function1 inner, SerializableConfiguration conf) {
            this.inner = inner;
            this.conf = conf;
        }

        public Object apply(Object given) {
            Watch watch = new Watch((PartitionedFile) given, conf.value());
            scala.collection.Iterator rows = null;
            try {
                rows = (scala.collection.Iterator) inner.apply(given);
            } catch (Throwable error) {
                watch.explain(error);
            }
            // Spark has read the footer and opened the file. If it is still the listed file, both steps used that file.
            watch.check();
            return new Rows(rows, watch);
        }
    }

    public static class Watch {
        private final PartitionedFile file;
        private final Configuration conf;
        public final boolean isLocal;

        public Watch(PartitionedFile file, Configuration conf) {
            this.file = file;
            this.conf = conf;
            this.isLocal = "file".equals(file.toPath().toUri().getScheme());
        }

        // Throws a conflict if the file was replaced, which may be why a read failed, or else the error of the read.
        public void explain(Throwable error) {
            check();
            Platform.throwException(error);
        }

        public void check() {
            Path path = file.toPath();
            try {
                FileSystem filesystem = path.getFileSystem(conf);
                FileStatus now = filesystem.getFileStatus(path);
                if (now.getLen() == file.fileSize() && now.getModificationTime() == file.modificationTime()) {
                    return;
                }
            } catch (java.io.FileNotFoundException error) {
                // It was replaced or removed.
            } catch (java.io.IOException error) {
                Platform.throwException(error);
            }
            // With spark.sql.files.ignoreCorruptFiles, Spark would ignore a RuntimeException or an IOException.
            Platform.throwException(new SparkException(
                "ConflictError: " + path + " changed since the plan; run the query on a new DataFrame"));
        }
    }

    public static class Rows extends scala.collection.AbstractIterator implements java.io.Closeable {
        private final scala.collection.Iterator inner;
        private final Watch watch;
        private boolean more = true;

        public Rows(scala.collection.Iterator inner, Watch watch) {
            this.inner = inner;
            this.watch = watch;
        }

        public boolean hasNext() {
            if (more && !hasNextInner()) {
                more = false;
                if (watch.isLocal) {
                    // The file may have been overwritten in place. Streams of object stores detect that themselves.
                    watch.check();
                }
            }
            return more;
        }

        private boolean hasNextInner() {
            try {
                return inner.hasNext();
            } catch (Throwable error) {
                watch.explain(error);
                return false;
            }
        }

        public Object next() {
            try {
                return inner.next();
            } catch (Throwable error) {
                watch.explain(error);
                return null;
            }
        }

        public void close() throws java.io.IOException {
            if (inner instanceof java.io.Closeable) {
                ((java.io.Closeable) inner).close();
            }
        }
    }
}
